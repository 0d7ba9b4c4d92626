import assert from "node:assert/strict";
import { test } from "node:test";
import { layoutBytes, pack, relayout, unpack } from "../../resources/page/repack.js";

const iota = (n) => Uint32Array.from({ length: n }, (_, i) => i + 1);

test("a panel holds its columns row by row, the tail padded with zeros", () => {
  const panels = new Uint32Array(layoutBytes(2, 5, 4) / 4).fill(99);
  pack(iota(10), panels, 2, 5, 4);
  assert.deepEqual([...panels], [1, 2, 3, 4, 6, 7, 8, 9, 5, 0, 0, 0, 10, 0, 0, 0]);
});

for (const [K, N] of [[1, 1], [3, 7], [5, 16], [4, 33], [7, 12]]) {
  for (const width of [4, 8, 12, 16]) {
    test(`${K} x ${N} in panels of ${width} and back`, () => {
      const rows = iota(K * N);
      const panels = new Uint32Array(layoutBytes(K, N, width) / 4);
      pack(rows, panels, K, N, width);
      const back = new Uint32Array(K * N);
      unpack(panels, back, K, N, width);
      assert.deepEqual(back, rows);
    });
  }
}

test("in place through every pair of widths, neighbours untouched", () => {
  const [K, N] = [5, 19];
  const capacity = layoutBytes(K, N, 16);
  const memory = new ArrayBuffer(64 + capacity + 64 + capacity);
  const [address, scratch] = [64, 64 + capacity + 64];
  const all = new Uint8Array(memory);
  all.fill(0x5a, 0, 64).fill(0x5a, 64 + capacity, scratch);
  new Uint32Array(memory, address, K * N).set(iota(K * N));
  let now = 0;
  for (const next of [4, 16, 0, 12, 8, 8, 16, 4, 0]) {
    relayout(memory, address, scratch, K, N, now, next);
    now = next;
    const expected = new Uint32Array(layoutBytes(K, N, next) / 4);
    if (next) pack(iota(K * N), expected, K, N, next);
    else expected.set(iota(K * N));
    assert.deepEqual(new Uint32Array(memory, address, expected.length), expected);
    assert.ok([...all.subarray(0, 64), ...all.subarray(64 + capacity, scratch)].every((b) => b === 0x5a));
  }
});

test("the bits of a NaN survive", () => {
  const memory = new ArrayBuffer(256);
  new Uint32Array(memory, 0, 2).set([0x7fa00001, 0xffc12345]);
  relayout(memory, 0, 128, 2, 1, 0, 4);
  relayout(memory, 0, 128, 2, 1, 4, 0);
  assert.deepEqual([...new Uint32Array(memory, 0, 2)], [0x7fa00001, 0xffc12345]);
});
