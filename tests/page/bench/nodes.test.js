/** What the profiler of ONNX Runtime Web says of nodes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { mediansOf, nodeTimes } from "../../../resources/bench/nodes.js";

/** @param {string} name @param {number} dur @param {string} [op] */
const event = (name, dur, op) =>
  `${JSON.stringify({ cat: op ? "Node" : "Session", name, dur, args: op ? { op_name: op } : {} })},`;

test("a node's time is the median of the last runs, whatever else is logged", () => {
  const run = (/** @type {number} */ dur) => [
    event("mm_kernel_time", dur, "MatMul"),
    event("body_kernel_time", 10, "Add"),
    event("body_kernel_time", 20, "Add"),
    event("SequentialExecutor::Execute", 100),
    event("model_run", 101),
  ];
  const lines = ["[", "a warning", event("session_initialization", 9), ...run(9000), ...run(1500), ...run(70000), ...run(1000), "]"];
  const found = mediansOf(lines, 3);
  assert.deepEqual(found, [
    { name: "mm", op: "MatMul", ms: 1.5 },
    { name: "body", op: "Add", ms: 0.03 },
  ]);
});

test("all runs after the warm-up are counted, once the profiler has ended", async () => {
  /** @type {string[]} */
  const lines = [];
  let runs = 0;
  const session = {
    run: async () => {
      runs++;
      return {};
    },
    endProfiling: () => {
      for (let i = 0; i < runs; i++) lines.push(event("x_kernel_time", i < runs - 200 ? 9e6 : 1000, "Relu"), event("model_run", 1));
    },
  };
  const [{ ms }] = await nodeTimes(session, {}, lines);
  assert.ok(Math.abs(ms - 1) < 1e-9, String(ms));
});
