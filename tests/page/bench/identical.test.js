import assert from "node:assert/strict";
import { test } from "node:test";

import { identical } from "../../../resources/bench/turbo/loops.js";

/** @param {(view: DataView) => void} write @returns {Uint32Array} */
function memory(write) {
  const words = new Uint32Array(8);
  write(new DataView(words.buffer));
  return words;
}

test("every bit counts, the sign of a zero too", () => {
  const zero = memory(() => {});
  assert.equal(identical(zero, memory(() => {})), true);
  assert.equal(identical(zero, memory((view) => view.setFloat32(8, -0, true))), false);
  assert.equal(identical(zero, memory((view) => view.setUint8(31, 1))), false);
});

test("the payload of a NaN is left open, also of one that is not aligned", () => {
  for (const at of [4, 6, 27, 28]) {
    const first = memory((view) => view.setUint32(at, 0xffc00000, true));
    assert.equal(identical(first, memory((view) => view.setUint32(at, 0xffd63e8e, true))), true, `at byte ${at}`);
    assert.equal(identical(first, memory((view) => view.setFloat32(at, 1, true))), false);
  }
  const double = (/** @type {bigint} */ bits) => memory((view) => view.setBigUint64(5, bits, true));
  assert.equal(identical(double(0x7ff8000000000000n), double(0x7ff8000000000001n)), true);
});

test("what differs beside a NaN is told", () => {
  const write = (/** @type {number} */ beside) => memory((view) => {
    view.setUint32(8, 0xffc00000 + beside, true);
    view.setFloat32(12, beside, true);
  });
  assert.equal(identical(write(1), write(2)), false);
});
