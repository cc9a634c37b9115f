/** Error of this package. Its message states what was got, what is expected, and what to do. */
export class EdgeEmbedError extends Error {}

export interface LoadOptions {
  /** Whether to load the module with SIMD. By default, the engine decides. */
  simd?: boolean;
  /** Address or content of a module, where the page serves it elsewhere. */
  wasm?: string | URL | BufferSource | WebAssembly.Module;
}

/** Loads the kernels. Each call has its own memory, which an engine returns when nothing refers to it. */
export function loadKernels(options?: LoadOptions): Promise<Kernels>;

export interface ExternalData {
  /** Path of the file, as the model names it. */
  path: string;
  data: BufferSource;
}

export interface Kernels {
  /** Version of edge-embed that the kernels are from. */
  readonly version: string;
  /** Whether the module has SIMD; undefined for a module of the caller. */
  readonly simd: boolean | undefined;
  /** Bytes of memory that tables hold. */
  readonly bytesUsed: number;
  /**
   * Returns the tables of a packed file by name. Its hashes are compared where the engine has SHA-256, in browsers
   * on secure pages. `verify: true` is an error elsewhere, and `verify: false` compares none.
   */
  openTables(bytes: BufferSource, options?: { verify?: boolean }): Promise<Map<string, Table>>;
  /** Returns the tables of an exported ONNX file, and the rest of it for onnxruntime-web. */
  openModel(bytes: BufferSource, options?: { externalData?: readonly ExternalData[] }): Model;
}

/** Ids of rows: integers from 0 to rows - 1. */
export type Ids = Int32Array | BigInt64Array | readonly (number | bigint)[];

export interface Best {
  /** Float32 [states, k], largest first, equal ones by lowest id. NaN counts as the largest. */
  values: Float32Array;
  /** Int64 [states, k]. */
  ids: BigInt64Array;
}

/** A compressed table. All results are float32. With `out`, a result is written to an array of the caller. */
export interface Table {
  readonly name: string;
  readonly method: "dpq" | "ant" | "tt";
  readonly rows: number;
  readonly columns: number;
  /** Row of zeros that bags skip, or null. */
  readonly paddingIdx: number | null;
  /** Returns rows [ids, columns]. */
  lookup(ids: Ids, options?: { out?: Float32Array }): Float32Array;
  /**
   * Reduces bags of rows to [bags, columns]. Bag b has the ids from offsets[b] to offsets[b + 1] - 1: `offsets` begins with
   * 0 and ends with the number of ids. `weights` are factors of rows, for mode "sum" only.
   */
  bag(
    ids: Ids,
    offsets: Ids,
    options?: { mode?: "sum" | "mean" | "max"; weights?: Float32Array; out?: Float32Array },
  ): Float32Array;
  /** Multiplies hidden states [states, columns] with all rows: [states, rows]. */
  logits(hidden: Float32Array, options?: { out?: Float32Array }): Float32Array;
  /** Returns the k largest logits of each state, plus a bias [rows]. */
  topk(hidden: Float32Array, k: number, options?: { bias?: Float32Array }): Best;
  /** Returns the memory of the table, which cannot be used afterwards. */
  free(): void;
}

/** A tensor of onnxruntime-web. */
export interface Tensor {
  readonly type: string;
  readonly dims: readonly number[];
  readonly data: unknown;
}

export interface Session {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  /** Runs the whole model, with a tensor of the type and shape in the file for each input. Rows, logits and top-k values are float32. */
  run(feeds: Readonly<Record<string, Tensor>>): Promise<Record<string, Tensor>>;
  /** Releases the sessions of onnxruntime-web; a second call does nothing. Tables stay until `free` of the model. */
  release(): Promise<void>;
}

export interface Model {
  readonly tables: Map<string, Table>;
  /**
   * The nodes without tables as models, each empty if it has none: `before` computes ids and offsets, `rest` has rows as
   * inputs and hidden states as outputs, and `after` reads logits.
   */
  readonly parts: { readonly before: Uint8Array; readonly rest: Uint8Array; readonly after: Uint8Array };
  /** Creates a session of the module onnxruntime-web for the parts; `options` are those of `InferenceSession.create`. */
  createSession(ort: unknown, options?: unknown): Promise<Session>;
  /** Frees all tables. */
  free(): void;
}
