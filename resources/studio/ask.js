/** One call to a worker and its reply, within a time limit. */
import { EngineError } from "../engine/errors.js";

/** @import { Call, Reply } from "./serve.js" */
/** The part of a Worker that the router uses. */
/** @typedef {Pick<Worker, "postMessage" | "terminate" | "addEventListener" | "removeEventListener">} WorkerLike */
/**
 * @typedef {object} Limit
 * @property {number} limit_ms Infinity is none
 * @property {string} what takes that long, for the error
 * @property {number} [first_ms] as long as the worker has not said `checked`; without it as later
 * @property {() => number} [worked_ms] ms that the worker was allowed to work, where it may be held up
 */

/** @param {Call} call */
export const transferOf = ({ blobs }) => [...new Set(blobs.map((b) => b.buffer))];

/**
 * @param {WorkerLike} worker several calls may be under way; a reply has the id of its call
 * @param {Call} call
 * @param {ArrayBuffer[]} transfer
 * @param {Limit} limit
 * @returns {Promise<Reply>}
 */
export function ask(worker, call, transfer, { limit_ms, first_ms, what, worked_ms }) {
  return new Promise((resolve, reject) => {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const end = (/** @type {() => void} */ then) => {
      clearTimeout(timer);
      worker.removeEventListener("message", onMessage);
      worker.removeEventListener("error", onError);
      then();
    };
    const onMessage = (/** @type {any} */ { data }) => {
      if (data.header.type === "checked" && data.header.of === call.header.id) {
        clearTimeout(timer);
        watch(limit_ms, `${what} did not end`);
      } else if (data.header.id === call.header.id) end(() => resolve(data));
    };
    const onError = (/** @type {any} */ event) =>
      end(() => reject(new EngineError(`A worker of the page died: ${event.message || "it could not start"}.`)));
    const start = worked_ms?.() ?? 0;
    const watch = (/** @type {number} */ allowed, /** @type {string} */ late, ms = allowed) => {
      timer = setTimeout(() => {
        const left = worked_ms ? allowed - (worked_ms() - start) : 0;
        if (left > 0) watch(allowed, late, Math.max(left, 1000));
        else end(() => reject(new EngineError(`${late} within ${allowed / 1000} s.`)));
      }, ms);
    };
    if (first_ms !== undefined) watch(first_ms, `${what}'s first run did not end`);
    else if (limit_ms !== Infinity) watch(limit_ms, `${what} did not end`);
    worker.addEventListener("message", onMessage);
    worker.addEventListener("error", onError);
    worker.postMessage(call, { transfer });
  });
}
