/** What a blocked thread and the worker that owns the device both see (blocking.js). */

/** @import { Price } from "./guard.js" */
/** @typedef {{key: string, fixedMs: number, upMs: number, downMs: number}} Facts */
/** @typedef {{price: Price} | {code: string, message: string, facts: Facts | null}} Answer */

/** Words: whether the answer is there, and its length in bytes. */
export const [STATE, LENGTH, WORDS] = [0, 1, 2];
export const MESSAGE_BYTES = 4096;
