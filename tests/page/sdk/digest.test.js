/** Hashes of files, also where the browser makes none. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { InferenceSession } from "../../../resources/nnjit.js";
import { sha256 } from "../../../resources/sdk/digest.js";
import { base, tinyBundle } from "../tiny_bundle.js";

/** As in a page that is no secure context. @param {import("node:test").TestContext} t */
function withoutCrypto(t) {
  const { crypto } = globalThis;
  Object.defineProperty(globalThis, "crypto", { value: { getRandomValues: () => {} }, configurable: true });
  t.after(() => Object.defineProperty(globalThis, "crypto", { value: crypto, configurable: true }));
}

test("hashes are those of SHA-256 at every length around a block", async (t) => {
  withoutCrypto(t);
  for (let n = 0; n < 200; n++) {
    const bytes = Uint8Array.from({ length: n + 3 }, (_, i) => i * 31 + n).subarray(3);
    assert.equal(await sha256(bytes), createHash("sha256").update(bytes).digest("hex"));
  }
});

test("without a secure context a wrong file is refused too", async (t) => {
  withoutCrypto(t);
  const { fetch } = globalThis;
  t.after(() => (globalThis.fetch = fetch));
  const files = tinyBundle();
  files["weights.bin"] = files["weights.bin"].slice().fill(1, 70, 71);
  globalThis.fetch = async (url) => new Response(files[String(url).slice(base.length - "manifest.json".length)]);
  await assert.rejects(InferenceSession.create(base), /weights.bin .* its sha256 differs/);
});

test("a bundle's own page says which file did not come whole", async (t) => {
  const { fetch } = globalThis;
  t.after(() => (globalThis.fetch = fetch));
  for (const name of Object.keys(tinyBundle())) {
    globalThis.fetch = async (url) => {
      const file = String(url).slice(base.length - "manifest.json".length);
      const bytes = tinyBundle()[file];
      const parts = file === name ? [bytes.slice(0, 9)] : [bytes];
      const end = (c) => (file === name ? c.error(new TypeError("network error")) : c.close());
      return new Response(new ReadableStream({ pull: (c) => (parts.length ? c.enqueue(parts.shift()) : end(c)) }));
    };
    await assert.rejects(InferenceSession.create(base), (e) => e.name === "EngineError" && e.error === `${name} of the bundle cannot be fetched: network error.`);
  }
});
