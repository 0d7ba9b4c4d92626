/** What a measurement says. */
import { EngineError, errorFields } from "../errors.js";
import { median } from "../quantile.js";

/** @import { KernelHeader } from "../../types/engine.js" */
/** @typedef {{header: KernelHeader, bytes: Uint8Array<ArrayBuffer>}} Kernel */
/** @typedef {{guard_ok: boolean, error_ratio: number | "inf", instantiate_ms: number, digest: string}} Check */
/**
 * Fields of the reply `measured`; an infinite error ratio travels as "inf".
 * @typedef {object} Measured
 * @property {number[]} samples_ms
 * @property {number[]} incumbent_ms
 * @property {number} batch
 * @property {number | "inf"} error_ratio
 * @property {boolean} guard_ok
 * @property {boolean} stopped_early
 * @property {number} instantiate_ms
 * @property {string} digest SHA-256 of the outputs, where the policy asks for it
 * @property {string} error
 */

/**
 * A measurement without samples.
 * @param {string} error
 * @returns {Measured}
 */
export const notMeasured = (error) => ({
  samples_ms: [],
  incumbent_ms: [],
  batch: 0,
  error_ratio: "inf",
  guard_ok: false,
  stopped_early: false,
  instantiate_ms: 0,
  digest: "",
  error,
});

const SKIPPED = "It was right in its check, but its timed runs left the outputs unwritten: the work is skipped, and its time is none.";

/**
 * Whether samples are worth a second check of the outputs: those of a kernel that is not ahead
 * change nothing.
 * @param {{samples_ms: number[], incumbent_ms: number[], stopped_early: boolean}} samples
 */
export const isAhead = ({ samples_ms, incumbent_ms, stopped_early }) =>
  !stopped_early && (!incumbent_ms.length || median(samples_ms) < median(incumbent_ms));

/**
 * Refuses a kernel that does the work where it is checked and not where it is timed.
 * @template {{error: string}} Result
 * @param {Result} result
 * @param {number} ratio of the outputs of a run after the samples
 * @returns {Result}
 */
export const unlessSkipped = (result, ratio) => (ratio <= 1 ? result : { ...result, error: SKIPPED });

/** An error and its hint as one text. @param {unknown} thrown */
export function sentence(thrown) {
  const { error, hint } = errorFields(thrown);
  return `${error} ${hint}`.trim();
}

/**
 * @param {number} ratio at most 1 is right
 * @param {boolean} guard_ok
 * @param {number} instantiate_ms
 * @param {Uint8Array[] | null} outputs null where no digest is wanted
 * @returns {Promise<{check: Check, right: boolean}>}
 */
export async function judged(ratio, guard_ok, instantiate_ms, outputs) {
  const digest = outputs ? await digestOf(outputs) : "";
  return { check: { guard_ok, error_ratio: ratio === Infinity ? "inf" : ratio, instantiate_ms, digest }, right: ratio <= 1 && guard_ok };
}

/** @param {Uint8Array[]} outputs */
async function digestOf(outputs) {
  const all = await new Blob(outputs.map((o) => o.slice())).arrayBuffer();
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", all));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * @template {{workload: string}} Fixture
 * @param {Fixture | null} fixture
 * @param {Kernel} kernel
 * @returns {Fixture}
 */
export function fixtureOf(fixture, { header: { workload } }) {
  if (fixture?.workload !== workload) throw new EngineError(`The page has no fixture of ${workload}.`, "Send the fixture first.");
  return fixture;
}
