import assert from "node:assert/strict";
import { test } from "node:test";
import { appendRuns, kernelOfRun } from "../../../resources/engine/gpu/append.js";

const size = { heads: 2, rows: 1, width: 4, capacity: 8, nbytes: 4, columns: false };
const step = (args, append = size) => ({ op: "append", workload: "", node: "", args, append });
const call = { op: "call", workload: "f", node: "", args: [0] };

test("neighbouring appends at one slot are one dispatch, as far as its buffers reach", () => {
  const steps = [step([0, 10, 5]), step([1, 11, 5]), step([2, 12, 5]), step([3, 13, 5]), call];
  const runs = appendRuns(steps);
  assert.deepEqual(runs, [steps.slice(0, 3), [steps[3]]]);
  const { access, code } = kernelOfRun(runs[0]);
  assert.deepEqual(access, ["read", "read_write", "read", "read_write", "read", "read_write", "read"]);
  assert.match(code, /@binding\(6\) var<storage, read> at/);
});

test("another slot, one cache twice, and elements smaller than a word are dispatches of their own", () => {
  const first = step([0, 10, 5]);
  const small = step([1, 11, 5], { ...size, nbytes: 2 });
  for (const other of [step([1, 11, 6]), step([1, 11]), step([1, 10, 5]), small, call]) assert.deepEqual(appendRuns([first, other])[0], [first]);
  assert.deepEqual(appendRuns([small, first]), [[small], [first]]);
  assert.deepEqual(appendRuns([first, call, step([1, 11, 5])]).length, 2);
});
