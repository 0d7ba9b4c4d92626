/** From a list of commands to compute passes: as few as stamps and copies allow. */

/** @import { Stamp } from "../../../types/gpu.js" */
/**
 * `begin` and `end` are stamp slots, null for none.
 * @template Dispatch
 * @typedef {{op: "pass", dispatches: Dispatch[], begin: number | null, end: number | null}} Pass
 */

/**
 * A stamp belongs to the end of the dispatches before it, else to the beginning of those
 * behind it; with neither it is an empty pass.
 *
 * @template {{op: "dispatch"}} Dispatch
 * @template {{op: "copy" | "fetch" | "resolve"}} Other
 * @param {readonly (Dispatch | Stamp | Other)[]} commands
 * @returns {(Pass<Dispatch> | Other)[]}
 */
export function passesOf(commands) {
  /** @type {(Pass<Dispatch> | Other)[]} */
  const parts = [];
  /** @type {Pass<Dispatch> | null} that takes more dispatches, or a stamp */
  let open = null;
  for (const command of commands) {
    if (command.op === "dispatch") {
      if (!open || open.end !== null) parts.push((open = { op: "pass", dispatches: [], begin: null, end: null }));
      open.dispatches.push(/** @type {Dispatch} */ (command));
    } else if (command.op === "stamp") {
      const { index } = /** @type {Stamp} */ (command);
      if (open?.dispatches.length && open.end === null) open.end = index;
      else parts.push((open = { op: "pass", dispatches: [], begin: index, end: null }));
    } else {
      parts.push(/** @type {Other} */ (command));
      open = null;
    }
  }
  return parts;
}
