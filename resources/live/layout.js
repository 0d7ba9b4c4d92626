/** Where what threads share lies; `nnjit_studio/foreign_wasm/live/layout.py` says why. */

export const SLOTS = 32;
export const ORIGINAL = 1;
export const FIRST_FREE = 2;

export const CHOSEN = 0;
export const RECORDING = 64;
export const CURSOR = 68;
export const MAILBOX = 128;
export const RING = 1024;
export const RECORD_BYTES = 32;
export const MOST_RECORDS = 1 << 16;
export const MODULES = RING + RECORD_BYTES * MOST_RECORDS;
export const PAGES = 64;

export const TABLE = "nnjit_table";
