import assert from "node:assert/strict";
import { test } from "node:test";
import { findAdapter } from "../../../resources/engine/gpu/native/adapter.js";

test("a browser that never answers is given up, and said so", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let asked = 0;
  let now = 0;
  const gpu = { requestAdapter: () => (asked++, new Promise(() => {})) };
  const found = findAdapter(gpu, () => now).then(
    () => assert.fail("there is no adapter"),
    (e) => e,
  );
  for (let i = 0; i < 5; i++) {
    await new Promise((resolve) => setImmediate(resolve));
    now += 15000;
    t.mock.timers.tick(15000);
  }
  const error = await found;
  assert.equal(error.code, "gpu-unavailable");
  assert.match(error.error, /does not answer within 15 s/);
  assert.equal(asked, 1);
});
