/** A library with as much of ONNX Runtime Web's interface as a live session uses: a page and one thread. */
export const env = { wasm: {}, versions: { web: "test" } };

export class Tensor {
  constructor(type, data, dims) {
    Object.assign(this, { type, data, dims });
  }
}

export const InferenceSession = {
  async create() {
    const { mjs, wasm } = env.wasm.wasmPaths;
    const { product } = await import(mjs);
    const worker = new Worker(mjs, { type: "module", name: "thread" });
    const { module, instance } = await WebAssembly.instantiateStreaming(fetch(wasm));
    worker.postMessage({ module });
    const ask = (x) => new Promise((resolve) => ((worker.onmessage = ({ data }) => resolve(data)), worker.postMessage({ x })));
    return {
      async run({ x }) {
        return { page: { data: product(instance, x.data) }, thread: { data: await ask(x.data) } };
      },
    };
  },
};
