import assert from "node:assert/strict";
import { test } from "node:test";
import { passTime } from "../../../resources/bench/gpu/record.js";
import { relativeError } from "../../../resources/bench/gpu/sweep.js";

test("the time of passes is the sum of their own", () => {
  assert.equal(passTime(new BigUint64Array([10n, 1_000_010n, 5_000_000n, 5_500_000n])), 1.5);
  assert.equal(passTime(new BigUint64Array()), 0);
});

test("an error is relative to the largest value, and a value that is none is infinitely wrong", () => {
  const reference = new Float32Array([1, -4, 2]);
  assert.equal(relativeError(new Float32Array([1, -3, 2]), reference), 0.25);
  assert.equal(relativeError(reference, reference), 0);
  assert.equal(relativeError(new Float32Array([1, -4, NaN]), reference), Infinity);
  assert.equal(relativeError(new Float32Array([NaN, -4, 2]), reference), Infinity);
  assert.equal(relativeError(new Float32Array([1, -4]), reference), Infinity);
  assert.equal(relativeError(new Float32Array([0.5]), new Float32Array([0])), 0.5);
});
