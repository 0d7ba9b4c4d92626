/** The glue of the runtime of test_live_page.py: a product with a fixed matrix, in an instance's memory. */
const [M, K, N, PANEL] = [64, 48, 64, 16];
const [A, B, C] = [1024, 8192, 16384];

/** @param {WebAssembly.Instance} instance */
export function product({ exports }, x) {
  const floats = new Float32Array(exports.memory.buffer);
  floats.set(x, A);
  for (let panel = 0; panel < N / PANEL; panel++)
    for (let k = 0; k < K; k++)
      for (let j = 0; j < PANEL; j++) floats[B + (panel * K + k) * PANEL + j] = Math.sin(k * N + panel * PANEL + j);
  exports.walk(4 * A, 4 * B, 4 * C, K, M, N, K, N, 1);
  return floats.slice(C, C + M * N);
}

if (globalThis.WorkerGlobalScope) {
  let instance = null;
  self.onmessage = ({ data }) => {
    if (data.module) instance = new WebAssembly.Instance(data.module);
    else self.postMessage(product(instance, data.x));
  };
}
