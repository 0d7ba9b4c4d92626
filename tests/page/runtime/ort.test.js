/** Models that come as bytes: the address in them, and what is none. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { bundles, InferenceSession, Tensor } from "../../../resources/runtime/transformers.js";
import { base, expected, K, tinyBundle } from "../tiny_bundle.js";

test("a model's file is its address, other files come as they are", async () => {
  const asked = [];
  const fetched = bundles(async (input) => {
    asked.push(`${input}`);
    return new Response("{}");
  });
  assert.equal(await (await fetched("http://a.example/m/config.json")).text(), "{}");
  const model = await fetched("http://a.example/m/onnx/model.onnx?x=1");
  assert.match(await model.text(), / http:\/\/a\.example\/m\/onnx\/model\.onnx\?x=1$/);
  assert.deepEqual(asked, ["http://a.example/m/config.json"]);
});

test("a session asks for the bundle of the address, and refuses other bytes", async (t) => {
  const asked = [];
  t.mock.method(globalThis, "fetch", async (/** @type {URL} */ url) => {
    asked.push(url.href);
    return new Response("no", { status: 404 });
  });
  const model = await bundles(fetch)("http://a.example/m/onnx/model.onnx");
  const bytes = new Uint8Array(await model.arrayBuffer());
  await assert.rejects(InferenceSession.create(bytes, { executionProviders: ["wasm"] }), /manifest\.json of the bundle cannot be fetched: the server answers 404/);
  assert.deepEqual([...new Set(asked)], ["http://a.example/m/onnx/model/manifest.json"]);
  await assert.rejects(InferenceSession.create(new Uint8Array([8, 9, 18]), { executionProviders: ["wasm"] }), /model in memory cannot be opened/);
});

test("a tensor that is given for an output is filled, and refused where it does not fit", async (t) => {
  const files = tinyBundle();
  t.mock.method(globalThis, "fetch", async (/** @type {URL} */ url) => new Response(files[url.href.slice(new URL(".", base).href.length)]));
  const session = await InferenceSession.create(base, { executionProviders: ["wasm"] });
  const feeds = { x: new Tensor("float32", [10, 20, 30], [K]) };
  const { dims } = (await session.run(feeds)).y;
  const mine = new Tensor("float32", new Float32Array(expected.length), dims);
  const { y } = await session.run(feeds, { y: mine });
  assert.equal(y, mine);
  assert.deepEqual([...mine.data], expected);
  await assert.rejects(session.run(feeds, { y: new Tensor("float32", [1], [1]) }), /given for an output is float32\[1\]/);
});
