/** A helper of a team: takes kernels from messages, and chunks of work in between. */
import { help } from "./control.js";

/** @import { Run } from "../types/engine.js" */
/** @import { Control } from "./control.js" */

/** @type {Map<number, Run>} */
const kernels = new Map();
/** @type {Control} */
let control;
let mail = 0;
let number = 0;

addEventListener("message", ({ data }) => {
  mail++;
  control ??= data.control;
  number = data.number;
  let error = "";
  try {
    for (const id of data.drop) kernels.delete(id);
    for (const { id, module } of data.add) {
      const { exports } = new WebAssembly.Instance(module, { env: { memory: data.memory } });
      kernels.set(id, /** @type {Run} */ (exports.run));
    }
  } catch (e) {
    error = String(e);
  }
  postMessage({ error });
  help(control, kernels, mail, number);
});
