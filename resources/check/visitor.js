/**
 * Runs in a deployed page as one of its visitors: the model answers once, and the page's thread
 * is watched. Its text is given to the browser as one expression.
 */
async (/** @type {{engine: string, manifest: string, lacks: string, block_ms: number}} */ { engine, manifest, lacks, block_ms }) => {
  const VECTOR = 0x7b; // v128 in the type of a function
  if (lacks === "simd") {
    const { validate } = WebAssembly;
    WebAssembly.validate = (bytes) => !new Uint8Array(ArrayBuffer.isView(bytes) ? bytes.buffer : bytes).includes(VECTOR) && validate(bytes);
  }
  if (lacks === "threads") Object.defineProperty(globalThis, "crossOriginIsolated", { value: false });
  if (lacks === "webgpu") Object.defineProperty(navigator, "gpu", { value: undefined });

  const blocks = { blocks: 0, longest_block_ms: 0 };
  let [before, watching] = [performance.now(), true];
  const watch = () => {
    const now = performance.now();
    if (now - before > block_ms) blocks.blocks++;
    if (now - before > block_ms) blocks.longest_block_ms = Math.max(blocks.longest_block_ms, now - before);
    before = now;
    if (watching) setTimeout(watch);
  };
  watch();

  const start = performance.now();
  try {
    const { InferenceSession, Tensor } = await import(engine);
    const executionProviders = ["webgpu", "wasm"];
    const session = await InferenceSession.create(manifest, { executionProviders, numThreads: 0 });
    const samples = session.manifest.samples?.inputs ?? [];
    /** @type {Record<string, any>} */
    const feeds = {};
    for (const [i, { name, type }] of session.inputMetadata.entries()) {
      const { shape } = session.manifest.inputs[i];
      feeds[name] = new Tensor(type, Array(shape.reduce((/** @type {number} */ n, /** @type {number} */ d) => n * d, 1)).fill(0), shape);
      const sample = samples.find((/** @type {{name: string}} */ each) => each.name === name);
      if (sample) {
        const bytes = await (await fetch(new URL(sample.file, manifest))).arrayBuffer();
        feeds[name] = new Tensor(type, new feeds[name].data.constructor(bytes), shape);
      }
    }
    await session.run(feeds);
    const first_answer_s = (performance.now() - start) / 1000;
    await new Promise((resume) => setTimeout(resume, block_ms)); // the last block is seen
    watching = false;
    const { executionProvider: backend, tier, threads, fallbackReason } = session;
    const note = session.manifest.gpu_kernels ? fallbackReason : ""; // nobody promised a GPU
    return JSON.stringify({ backend, tier, threads, first_answer_s, note, ...blocks });
  } catch (e) {
    watching = false;
    return JSON.stringify({ error: e instanceof Error ? e.message : String(e) });
  }
};
