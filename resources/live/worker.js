/**
 * Runs in front of a worker's own script: the threads of a runtime attach themselves.
 *
 * Imported statically, so that it listens before the worker's script does and no message is lost.
 */
import { watchInstances } from "./hook.js";
import { attach } from "./runtime.js";

/** @import { Control } from "./runtime.js" */

/** @type {Control | null} */
let control = null;
/** @type {[WebAssembly.Instance, WebAssembly.Imports | undefined][]} */
const early = [];

watchInstances((instance, imports) => {
  if (control) attach(instance, imports, control);
  else early.push([instance, imports]);
});

self.addEventListener("message", (event) => {
  if (!event.data?.nnjitControl) return;
  event.stopImmediatePropagation();
  const given = (control = /** @type {Control} */ (event.data.nnjitControl));
  for (const [instance, imports] of early.splice(0)) attach(instance, imports, given);
});
