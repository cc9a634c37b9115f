// Runs the app of samples/react_native under Node.js: node react_native_app.cjs APP ONNXRUNTIME_NODE RUNS
//
// All code of the app is compiled as Metro does, with Node.js modules in place of those that need a phone. RUNS is a
// JSON file: [{ assets, documents, texts }]. Prints what the app shows at its start, after each text was typed, and
// after the first suggestion was touched.

const { webcrypto } = require("node:crypto");
const { existsSync, readdirSync, readFileSync, writeFileSync } = require("node:fs");
const Module = require("node:module");
const { join, sep } = require("node:path");
const { fileURLToPath, pathToFileURL } = require("node:url");

const [app, engine, runs] = process.argv.slice(2);
const appRequire = Module.createRequire(join(app, "package.json"));
const ort = require(engine);
const { transformSync } = appRequire("@babel/core");
const { createElement } = appRequire("react");
const { act, create } = appRequire("react-test-renderer");

globalThis.IS_REACT_ACT_ENVIRONMENT = true;
globalThis.OrtApi = { version: ort.env.versions.node };
console.error = () => {}; // react-test-renderer says that it is deprecated

let run; // the one in progress
const opened = []; // what the engine opened

class File {
  constructor(...parts) {
    this.name = parts[0].startsWith("file:") ? fileURLToPath(parts[0]) : join(...parts);
  }
  get exists() {
    return existsSync(this.name);
  }
  bytes = async () => new Uint8Array(readFileSync(this.name));
  text = async () => readFileSync(this.name, "utf8");
  write = (text) => writeFileSync(this.name, text);
}

const PHONE = {
  "expo-asset": {
    Asset: { fromModule: (path) => ({ downloadAsync: async () => ({ localUri: pathToFileURL(path).href }) }) },
  },
  "expo-crypto": {
    CryptoDigestAlgorithm: { SHA256: "SHA-256" },
    digest: (algorithm, bytes) => webcrypto.subtle.digest(algorithm, bytes),
  },
  "expo-file-system": {
    File,
    Paths: {
      get document() {
        return run.documents;
      },
    },
  },
  "onnxruntime-react-native": {
    ...ort,
    InferenceSession: {
      create(path) {
        if (typeof path !== "string") throw new Error("onnxruntime-react-native opens paths only");
        opened.push(path);
        // It rejects with a string, and not with an Error.
        return ort.InferenceSession.create(path).catch((error) => Promise.reject(error.message));
      },
    },
  },
  "react-native": {
    Pressable: "Pressable",
    ScrollView: "ScrollView",
    StatusBar: () => null,
    StyleSheet: { create: (styles) => styles },
    Text: "Text",
    TextInput: "TextInput",
    useColorScheme: () => "dark",
    View: "View",
  },
};

const load = Module._load;
Module._load = (name, ...rest) => PHONE[name] ?? load(name, ...rest);
process.env.NODE_PATH = join(app, "node_modules"); // as nodeModulesPaths in metro.config.js
Module._initPaths();

// In place of Metro's require.context.
globalThis.packedAssets = () =>
  Object.assign((key) => join(run.assets, key), { keys: () => readdirSync(run.assets).map((name) => `./${name}`) });

const compiled = new Map();
const OF_APP = [app, join(app, "..", "browser", "page")].map((folder) => folder + sep);
const isOfApp = (filename) =>
  OF_APP.some((folder) => filename.startsWith(folder)) && !filename.includes(`${sep}node_modules${sep}`);

function compile(filename) {
  const caller = { name: "metro", bundler: "metro", platform: "android", engine: "hermes", isDev: false };
  const presets = [appRequire.resolve("expo/internal/babel-preset")];
  const { code } = transformSync(readFileSync(filename, "utf8"), { filename, presets, caller, babelrc: false });
  return code.replace("require.context(", "packedAssets(");
}

const plain = Module._extensions[".js"];
for (const extension of [".js", ".ts", ".tsx"]) {
  Module._extensions[extension] = (module, filename) => {
    if (!isOfApp(filename)) return plain(module, filename);
    if (!compiled.has(filename)) compiled.set(filename, compile(filename));
    module._compile(compiled.get(filename), filename);
  };
}

async function start() {
  for (const name of Object.keys(require.cache)) if (isOfApp(name)) delete require.cache[name];
  const { default: App } = require(join(app, "App.tsx"));
  let tree;
  await act(() => (tree = create(createElement(App))));
  const { root } = tree;
  const state = () => root.findAllByType("Text").at(-1);
  const buttons = () => root.findAllByType("Pressable");
  const shown = () => ({
    text: root.findByType("TextInput").props.value,
    suggestions: buttons().map((button) => button.findByType("Text").props.children),
    labels: buttons().map((button) => button.props.accessibilityLabel),
    state: state().props.children,
    color: state().props.style.color,
  });
  const change = async (action) => {
    const before = shown().suggestions;
    await act(action);
    for (let i = 0; i < 200 && shown().suggestions === before; ++i) await act(() => pause(5));
    for (let i = 0; i < 200 && shown().state === "Opening the model."; ++i) await act(() => pause(5));
    await act(() => pause(30));
    return shown();
  };
  opened.length = 0;
  const first = await change(() => {});
  const typed = [];
  for (const text of run.texts) typed.push(await change(() => root.findByType("TextInput").props.onChangeText(text)));
  const touched = buttons().length ? await change(() => buttons()[0].props.onPress()) : null;
  await act(() => tree.unmount());
  return { first, typed, touched, opened: [...opened] };
}

const pause = (milliseconds) => new Promise((resolved) => setTimeout(resolved, milliseconds));

(async () => {
  const results = [];
  for (run of JSON.parse(readFileSync(runs, "utf8"))) results.push(await start());
  console.log(JSON.stringify(results));
})();
