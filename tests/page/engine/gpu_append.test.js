import assert from "node:assert/strict";
import { test } from "node:test";
import { appendKernel, appendsFrom } from "../../../resources/engine/gpu/append.js";

const size = { heads: 2, rows: 1, width: 4, capacity: 8, nbytes: 4, columns: false };
const step = (args, append = size) => ({ op: "append", workload: "", node: "", args, append });
const call = { op: "call", workload: "f", node: "", args: [0] };

test("neighbouring appends at one slot are one dispatch, as far as its buffers reach", () => {
  const steps = [step([0, 10, 5]), step([1, 11, 5]), step([2, 12, 5]), step([3, 13, 5]), call];
  assert.deepEqual(appendsFrom(steps, 0), steps.slice(0, 3));
  assert.deepEqual(appendsFrom(steps, 3), [steps[3]]);
  const { access, code } = appendKernel(steps.slice(0, 3).map((s) => s.append), true);
  assert.deepEqual(access, ["read", "read_write", "read", "read_write", "read", "read_write", "read"]);
  assert.match(code, /@binding\(6\) var<storage, read> at/);
});

test("another slot, one cache twice, and elements smaller than a word are dispatches of their own", () => {
  const first = step([0, 10, 5]);
  const small = step([1, 11, 5], { ...size, nbytes: 2 });
  for (const other of [step([1, 11, 6]), step([1, 11]), step([1, 10, 5]), small, call]) assert.deepEqual(appendsFrom([first, other], 0), [first]);
  assert.deepEqual(appendsFrom([small, first], 0), [small]);
});
