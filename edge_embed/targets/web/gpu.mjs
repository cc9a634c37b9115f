// The WebGPU adapter of a page, and the nodes that a session ran on it, from ONNX Runtime's profile.

const EMULATORS = /swiftshader|llvmpipe|lavapipe|mesa|basic render/i;

// Throws if there is no adapter. Call it before the engine starts: it prints its profile to the console that it finds.
export async function findGpu() {
  const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) throw new Error("WebGPU: the browser has no adapter");
  const { vendor, architecture, device, description, isFallbackAdapter } = adapter.info;
  const name = [vendor, architecture, device, description].filter(Boolean).join(" ");
  const emulated = isFallbackAdapter || EMULATORS.test(name);
  const printed = watchConsole();

  // The nodes of all cases. On a real GPU a second session is profiled, because a profile slows down what it times.
  async function watched(session, create, cases) {
    if (!emulated) {
      session = await create(true);
      for (const feeds of cases) await session.run(feeds);
    }
    session.endProfiling();
    return { adapter: name, emulated, nodes: profiledNodes(printed) };
  }
  return { emulated, watched };
}

function watchConsole() {
  const lines = [];
  const log = console.log;
  console.log = (...values) => {
    if (String(values[0]).startsWith('{"cat"')) lines.push(values[0]);
    else log(...values);
  };
  return lines;
}

// Each node once, as [operator, types of inputs, types of outputs, provider].
function profiledNodes(lines) {
  const nodes = new Map();
  for (const line of lines) {
    const { cat, name, args } = JSON.parse(line.replace(/,\s*$/, ""));
    if (cat !== "Node" || !name.endsWith("_kernel_time")) continue;
    const node = [args.op_name, types(args.input_type_shape), types(args.output_type_shape), args.provider];
    nodes.set(`${name} ${JSON.stringify(node)}`, node);
  }
  return [...nodes.values()];
}

function types(described) {
  return described.flatMap(Object.keys);
}
