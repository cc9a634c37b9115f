// Opens the bundle with onnxruntime-react-native, and remembers that it was right on this phone.

import * as ort from "onnxruntime-react-native";
import { hex, openBundle } from "../browser/page/bundle.js";
import { NextWord } from "../browser/page/next_word.js";

declare global {
  var OrtApi: { version: string }; // of the native library, which can be newer than the npm package
}

export interface Files {
  read(name: string): Promise<Uint8Array<ArrayBuffer>>;
  path(name: string): string;
  sha256(bytes: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer>;
  readNote(): Promise<string>; // what the last passed check wrote, or nothing
  writeNote(text: string): Promise<void>;
}

export interface Suggestion {
  word: string;
  probability: number;
}

export interface Model {
  suggest(text: string): Promise<Suggestion[]>;
}

// Hashes and golden outputs are compared at the first start with this bundle and this engine.
export async function openModel({ read, path, sha256, readNote, writeNote }: Files): Promise<Model> {
  const engine = { name: "onnxruntime-react-native", version: OrtApi.version };
  const note = `${hex(await sha256(await read("bundle.json")))} ${engine.version}`;
  const check = (await readNote()) !== note;
  const model = new NextWord(await openBundle(read, ort, { check, engine, sha256, path }), ort);
  if (check) await writeNote(note);
  return model;
}
