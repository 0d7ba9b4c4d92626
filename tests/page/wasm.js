/** A tiny assembler for test kernels: enough for one loop over i in begin..end. */

function leb(n) {
  const out = [];
  for (;;) {
    const low = n & 0x7f;
    n >>= 7;
    if ((n === 0 && !(low & 0x40)) || (n === -1 && low & 0x40)) return [...out, low];
    out.push(low | 0x80);
  }
}
function uleb(n) {
  const out = [];
  do out.push((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
  while ((n >>>= 7));
  return out;
}
const text = (s) => [...uleb(s.length), ...Buffer.from(s)];
const section = (id, payload) => [id, ...uleb(payload.length), ...payload];

export const get = (local) => [0x20, ...uleb(local)];
export const int = (n) => [0x41, ...leb(n)];
export const add = (a, b) => [...a, ...b, 0x6a];
export const mul = (a, b) => [...a, ...b, 0x6c];
export const div = (a, b) => [...a, ...b, 0x6e];
export const rem = (a, b) => [...a, ...b, 0x70];
export const load = (address) => [...address, 0x2a, 2, 0];
export const store = (address, value) => [...address, ...value, 0x38, 2, 0];
export const plus = (a, b) => [...a, ...b, 0x92];
export const at = (pointer, index) => add(get(pointer), mul(index, int(4)));
export const storeByte = (address, value) => [...address, ...value, 0x3a, 0, 0];
export const trap = [0x00];

/** `run(pointers..., begin, end)`, whose loop variable is local `pointers + 2`. */
export function kernel(pointers, body, { imports = [["env", "memory"]], name = "run" } = {}) {
  const [begin, end, i] = [pointers, pointers + 1, pointers + 2];
  const params = Array(pointers + 2).fill(0x7f);
  const code = [
    ...[1, 1, 0x7f], // one local i32
    ...get(begin), 0x21, i,
    0x02, 0x40, 0x03, 0x40, // block, loop
    ...get(i), ...get(end), 0x4e, 0x0d, 1, // leave when i >= end
    ...body(get(i)),
    ...add(get(i), int(1)), 0x21, i, 0x0c, 0,
    0x0b, 0x0b, 0x0b,
  ];
  const memoryImports = imports.flatMap(([m, n]) =>
    n === "memory" ? [...text(m), ...text(n), 2, 0, 1] : [...text(m), ...text(n), 0, 1],
  );
  const functions = imports.filter(([, n]) => n !== "memory").length;
  return Uint8Array.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [2, 0x60, ...uleb(params.length), ...params, 0, 0x60, 0, 0]),
    ...section(2, [imports.length, ...memoryImports]),
    ...section(3, [1, 0]),
    ...section(7, [1, ...text(name), 0, functions]),
    ...section(10, [1, ...uleb(code.length), ...code]),
  ]);
}

/** out[i] = a[i] + b[i] */
export const addKernel = kernel(3, (i) => store(at(2, i), plus(load(at(0, i)), load(at(1, i)))));
/** out[i] = a[i] + a[i], for a kernel that is wrong as an add but harmless */
export const doubleKernel = kernel(3, (i) => store(at(2, i), plus(load(at(0, i)), load(at(0, i)))));
/** out = x[row] * 1 + weight, weight K x N: out[k, n] = x[k] + w[k, n], read from panels of `width` */
export function rowAddKernel(K, N, width) {
  const k = (i) => div(i, int(N));
  const n = (i) => rem(i, int(N));
  const inPanels = (i) => add(add(mul(div(n(i), int(width)), int(K * width)), mul(k(i), int(width))), rem(n(i), int(width)));
  const index = width ? inPanels : (i) => i;
  return kernel(3, (i) => store(at(2, i), plus(load(at(0, k(i))), load(at(1, index(i))))));
}

export const header = (workload, extent, panels = [], settings = "default") => ({
  workload,
  settings,
  tier: "simd128",
  sha256: "",
  panels,
  parallel_extent: extent,
});

export const bytesOf = (typed) => new Uint8Array(typed.buffer.slice(typed.byteOffset, typed.byteOffset + typed.byteLength));
export const f32 = (...values) => bytesOf(Float32Array.from(values));
export const floats = (bytes) => [...new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4)];

/** out = x + w, then out2 = out + out, over a packable weight K x N. */
export function planOf(K, N) {
  const spec = (name, shape) => ({ name, shape, dtype: "f32" });
  const round = (n) => Math.ceil(n / 64) * 64;
  const [weight, x, y] = [Math.ceil(N / 16) * 16 * K * 4, round(K * 4), round(K * N * 4)];
  return {
    version: 1,
    name: "tiny",
    inputs: [{ spec: spec("x", [K]), buffer: 1 }],
    outputs: [{ spec: spec("y", [K, N]), buffer: 3 }],
    buffers: [
      { region: "weight", offset: 64, nbytes: weight, pack: [K, N] },
      { region: "arena", offset: 0, nbytes: K * 4, pack: null },
      { region: "arena", offset: x, nbytes: K * N * 4, pack: null },
      { region: "arena", offset: x + y, nbytes: K * N * 4, pack: null },
    ],
    steps: [
      { op: "call", workload: "rowadd", args: [1, 0, 2], node: "first" },
      { op: "call", workload: "add", args: [2, 2, 3], node: "second" },
      { op: "return", workload: "", args: [], node: "" },
    ],
    weights_bytes: 64 + round(weight),
    arena_bytes: x + 2 * y,
  };
}
