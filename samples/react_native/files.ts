// The files of the bundle on this phone. Metro packs assets/bundle into the app, and `npm run bundle` fills it.

import { Asset } from "expo-asset";
import { CryptoDigestAlgorithm, digest } from "expo-crypto";
import { File, Paths } from "expo-file-system";
import type { Files } from "./model";

const packed = require.context("./assets/bundle", false, /\.bin$/);
const note = new File(Paths.document, "checked_bundle");

// Copies the files out of the package of the app, which engines cannot open on Android.
export async function unpack(): Promise<Files> {
  const uris = new Map<string, string | null>();
  for (const key of packed.keys()) {
    const { localUri } = await Asset.fromModule(packed<number>(key)).downloadAsync();
    uris.set(key.slice("./".length, -".bin".length), localUri);
  }
  const uriOf = (name: string) => {
    const uri = uris.get(name);
    if (!uri) throw new Error(`${name}: is missing in this app: npm run bundle, then build it again`);
    return uri;
  };
  return {
    read: async (name) => new File(uriOf(name)).bytes(),
    path: (name) => decodeURIComponent(uriOf(name).replace("file://", "")),
    sha256: (bytes) => digest(CryptoDigestAlgorithm.SHA256, bytes),
    readNote: async () => (note.exists ? note.text() : ""),
    writeNote: async (text) => note.write(text),
  };
}
