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

test("elements smaller than a word join the others", () => {
  const steps = [step([0, 10, 5]), step([1, 11, 5], { ...size, nbytes: 2, columns: true })];
  assert.deepEqual(appendRuns(steps), [steps]);
});

test("another slot and one cache twice are dispatches of their own", () => {
  const first = step([0, 10, 5]);
  for (const other of [step([1, 11, 6]), step([1, 11]), step([1, 10, 5]), call]) assert.deepEqual(appendRuns([first, other])[0], [first]);
  assert.deepEqual(appendRuns([first, call, step([1, 11, 5])]).length, 2);
});
