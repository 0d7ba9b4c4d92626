import assert from "node:assert/strict";
import { test } from "node:test";
import { layoutBytes, pack, relayout, unpack } from "../../../resources/engine/repack.js";

const iota = (n) => Uint32Array.from({ length: n }, (_, i) => i + 1);

/** Panels by their definition. */
function panelsOf(K, N, width) {
  const panels = new Uint32Array(layoutBytes(K, N, width) / 4);
  for (let k = 0; k < K; k++)
    for (let n = 0; n < N; n++) panels[(Math.floor(n / width) * K + k) * width + (n % width)] = k * N + n + 1;
  return panels;
}

test("a panel holds its columns row by row, the tail padded with zeros", () => {
  const words = new Uint32Array(layoutBytes(2, 5, 4) / 4).fill(99);
  words.set(iota(10));
  pack(words, 2, 5, 4);
  assert.deepEqual([...words], [1, 2, 3, 4, 6, 7, 8, 9, 5, 0, 0, 0, 10, 0, 0, 0]);
});

for (const [K, N] of [[1, 1], [3, 7], [5, 16], [4, 33], [7, 12], [1, 50], [9, 3]]) {
  for (const width of [4, 8, 12, 16]) {
    for (const limit of [1, 100, 1 << 20]) {
      test(`${K} x ${N} in panels of ${width} and back, strips of ${limit} words`, () => {
        const words = new Uint32Array(layoutBytes(K, N, width) / 4).fill(99);
        words.set(iota(K * N));
        pack(words, K, N, width, limit);
        assert.deepEqual(words, panelsOf(K, N, width));
        unpack(words, K, N, width, limit);
        assert.deepEqual(words.subarray(0, K * N), iota(K * N));
      });
    }
  }
}

test("in place through every pair of widths, neighbours untouched", () => {
  const [K, N] = [5, 19];
  const capacity = layoutBytes(K, N, 16);
  const memory = new ArrayBuffer(64 + capacity + 64);
  const all = new Uint8Array(memory);
  all.fill(0x5a, 0, 64).fill(0x5a, 64 + capacity);
  new Uint32Array(memory, 64, K * N).set(iota(K * N));
  let now = 0;
  for (const next of [4, 16, 0, 12, 8, 8, 16, 4, 0]) {
    relayout(memory, 64, K, N, now, next);
    now = next;
    const expected = next ? panelsOf(K, N, next) : iota(K * N);
    assert.deepEqual(new Uint32Array(memory, 64, expected.length), expected);
    assert.ok([...all.subarray(0, 64), ...all.subarray(64 + capacity)].every((b) => b === 0x5a));
  }
});

test("the bits of a NaN survive", () => {
  const memory = new ArrayBuffer(64);
  new Uint32Array(memory, 0, 2).set([0x7fa00001, 0xffc12345]);
  relayout(memory, 0, 2, 1, 0, 4);
  relayout(memory, 0, 2, 1, 4, 0);
  assert.deepEqual([...new Uint32Array(memory, 0, 2)], [0x7fa00001, 0xffc12345]);
});

test("panels of halves, and back", () => {
  const [K, N] = [5, 19];
  const memory = new ArrayBuffer(layoutBytes(K, N, 16, 2));
  const rows = Uint16Array.from({ length: K * N }, (_, i) => 60000 + i);
  new Uint16Array(memory).set(rows);
  relayout(memory, 0, K, N, 0, 8, 2);
  const expected = [...panelsOf(K, N, 8)].map((word) => word && word + 59999);
  assert.deepEqual([...new Uint16Array(memory, 0, expected.length)], expected);
  relayout(memory, 0, K, N, 8, 16, 2);
  relayout(memory, 0, K, N, 16, 0, 2);
  assert.deepEqual(new Uint16Array(memory, 0, K * N), rows);
});
