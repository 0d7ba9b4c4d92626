/** A session in a worker: the same answers, errors and texts as in the page. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { env, InferenceSession, Tensor } from "../../../resources/runtime/index.js";
import { expected as continuation } from "../decoder.js";
import { expected, K, makeOpen, makeText, N, tinyBundle } from "../tiny_bundle.js";
import { WebWorker } from "../web_worker.js";

const x = () => new Tensor("float32", [10, 20, 30], [K]);
const create = () => InferenceSession.create(tinyBundle());
beforeEach(() => {
  globalThis.Worker = WebWorker;
  env.wasm.proxy = true;
});
afterEach(async () => {
  env.wasm.proxy = false;
  for (const worker of WebWorker.running) worker.terminate();
});

test("runs, facts and profiles come from the worker", async () => {
  const session = await create();
  assert.equal(WebWorker.running.size, 1);
  assert.deepEqual([session.inputNames, session.outputNames, session.executionProvider, session.threads], [["x"], ["y"], "wasm", 1]);
  assert.deepEqual(session.inputMetadata, [{ name: "x", isTensor: true, type: "float32", shape: [K] }]);
  const feeds = { x: x() };
  const { y } = await session.run(feeds);
  assert.ok(y instanceof Tensor);
  assert.deepEqual([y.dims, [...y.data], feeds.x.data.length], [[K, N], expected, K]);
  assert.equal((await session.profile(feeds, 3)).runs_ms.length, 3);
  await session.run(feeds, ["y"], { transfer: true });
  assert.equal(feeds.x.data.length, 0);
});

test("kernels of a bundle for any size run ahead in the worker, where they are asked for", async () => {
  const session = await InferenceSession.create(tinyBundle({ change: makeOpen }));
  assert.equal(await session.warmUp({ n: 9 }), 2);
  assert.deepEqual([...(await session.run({ x: new Tensor("float32", [1, 2, 3], [1, 3]) })).y.data], [4, 8, 12]);
  await assert.rejects(session.warmUp({ n: 0 }), /n is 0; the model takes 1 or more/);
  await assert.rejects((await create()).warmUp(), /takes one size/);
});

test("an error of the worker is the error of the call, and the session goes on", async () => {
  const session = await create();
  await assert.rejects(session.run({}), { name: "EngineError" });
  await assert.rejects(session.run({ x: x() }, ["z"]), /has no output "z"/);
  assert.deepEqual([...(await session.run({ x: x() })).y.data], expected);
  await assert.rejects(InferenceSession.create({}), /manifest.json of the bundle cannot be fetched/);
});

test("a run that is aborted before its turn is never made", async () => {
  const session = await create();
  const control = new AbortController();
  const first = session.run({ x: x() });
  const second = session.run({ x: x() }, null, { signal: control.signal });
  control.abort();
  await assert.rejects(second, { name: "AbortError" });
  await assert.rejects(session.run({ x: x() }, null, { signal: control.signal }), { name: "AbortError" });
  assert.deepEqual([...(await first).y.data], expected);
  assert.deepEqual([...(await session.run({ x: x() })).y.data], expected);
});

test("release ends the worker, and later calls say so", async () => {
  const session = await create();
  const waiting = session.run({ x: x() });
  await session.release();
  await assert.rejects(waiting, /was released/);
  await assert.rejects(session.run({ x: x() }), /was released/);
  await Promise.all([...WebWorker.running].map((worker) => worker.ended));
  assert.equal(WebWorker.running.size, 0);
});

test("a text comes token by token, and ends where its reader leaves", async () => {
  const session = await InferenceSession.create(tinyBundle({ change: makeText }));
  const ids = [];
  for await (const { id } of session.generate([2, 3], { maxTokens: 3 })) ids.push(id);
  assert.deepEqual(ids, continuation([2, 3], 3));
  const control = new AbortController();
  const text = session.generate([4], { signal: control.signal });
  await text.next();
  control.abort();
  assert.deepEqual(await text.next(), { done: true, value: "cancelled" });
  const early = new AbortController();
  const first = session.generate([2, 3, 4], { signal: early.signal }).next();
  early.abort();
  assert.deepEqual(await first, { done: true, value: "cancelled" }, "a prompt that is read can be cancelled too");
  for await (const { id } of session.generate([1])) {
    assert.equal(id, continuation([1], 1)[0]);
    break;
  }
});
