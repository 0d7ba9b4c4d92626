import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { decodeFrame, encodeFrame, MAX_FRAME_BYTES } from "../../../resources/studio/frames.js";

const fixtures = JSON.parse(readFileSync(new URL("../../protocol/fixtures.json", import.meta.url), "utf8"));
const bytes = (hex) => new Uint8Array(Buffer.from(hex, "hex"));

for (const { name, hex, header, blobs } of fixtures.accepted) {
  test(`frame is accepted: ${name}`, () => {
    const got = decodeFrame(bytes(hex).buffer);
    assert.deepEqual(got.header, header);
    assert.deepEqual(got.blobs.map((b) => Buffer.from(b).toString("hex")), blobs);
    assert.ok(got.blobs.every((b) => b.byteOffset % 8 === 0));
    assert.equal(Buffer.from(encodeFrame(header, blobs.map(bytes))).toString("hex"), hex);
  });
}

for (const { name, hex } of fixtures.refused) {
  test(`frame is refused: ${name}`, () => {
    assert.throws(() => decodeFrame(bytes(hex).buffer), /The frame is refused/);
  });
}

test("a frame over 128 MiB is neither made nor read", () => {
  assert.throws(() => encodeFrame({ type: "weights" }, [new Uint8Array(MAX_FRAME_BYTES)]), /over the limit/);
  assert.throws(() => decodeFrame(new ArrayBuffer(MAX_FRAME_BYTES + 8)), /over the limit/);
});
