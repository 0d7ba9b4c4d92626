/** When the page is idle, and what may leave it. */
import { EngineError } from "../../engine/errors.js";
import { queueAddress } from "./queue.js";

/** @typedef {"idle" | "hidden" | "now"} When */
/** @typedef {{budgetMs?: number, when?: When, p95?: number, share?: string | URL, queue?: string | URL}} TuneOptions */
/** @typedef {{budget_ms: number, when: When, limit: number, share: string, queue: string}} Terms */

const HIDDEN_MS = 200;
/** A battery below this share is left alone, charging or not. */
const LEAST_CHARGE = 0.2;

/**
 * @param {TuneOptions} options
 * @param {string} allowed the address of the bundle's manifest; empty for none
 * @returns {Terms}
 */
export function termsOf({ budgetMs = 2000, when = "idle", p95 = 1.05, share = "", queue = "" }, allowed) {
  if (!(budgetMs > 0)) throw new EngineError(`budgetMs is ${budgetMs}.`, "Give the milliseconds of work that a visit may cost.");
  if (!["idle", "hidden", "now"].includes(when)) throw new EngineError(`when is "${when}".`, 'Use "idle", "hidden" or "now".');
  if (!(p95 >= 1)) throw new EngineError(`p95 is ${p95}.`, "Give how much longer inferences may take, such as 1.05.");
  if (share && String(share) !== allowed)
    throw new EngineError(`The bundle does not allow times to be sent to ${share}.`, "Export it with --share and this address, or leave share out.");
  return { budget_ms: budgetMs, when, limit: p95, share: String(share), queue: queue ? queueAddress(queue) : "" };
}

/** Lets the page go on. @returns {Promise<void>} */
export const pause = () => new Promise((resolve) => setTimeout(resolve, 0));

/** Resolves when the page is idle and not on a low battery. @param {When} when */
export async function moment(when) {
  if (when === "now") return pause();
  for (;;) {
    await new Promise((resolve) => (isHidden() ? setTimeout(resolve, 0) : "requestIdleCallback" in globalThis && when === "idle" ? requestIdleCallback(resolve) : setTimeout(resolve, HIDDEN_MS)));
    if ((when === "idle" || isHidden()) && (await onPower())) return;
    await new Promise((resolve) => setTimeout(resolve, HIDDEN_MS));
  }
}

/** Whether nobody looks at the page: then work may take more of the time. */
export const isHidden = () => globalThis.document?.visibilityState === "hidden";

/** True where the browser does not tell. */
async function onPower() {
  const battery = await /** @type {any} */ (globalThis.navigator)?.getBattery?.().catch(() => null);
  return !battery || (battery.charging && battery.level >= LEAST_CHARGE);
}

/**
 * Settings and times, and which bundle they are of; nothing that the page or its visitor put in.
 * @param {string} url
 * @param {{bundle: string, tier: string, results: object[]}} facts
 */
export async function share(url, facts) {
  const body = JSON.stringify(facts);
  await fetch(url, { method: "POST", body, headers: { "Content-Type": "application/json" }, credentials: "omit", referrerPolicy: "no-referrer", keepalive: true }).catch(() => {});
}
