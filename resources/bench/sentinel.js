/** A fixed piece of arithmetic: how long it takes tells how much of its core the page has. */

/** @import { Contender } from "./rounds.js" */

const NUMBERS = 4096;
const PASSES = 1024;

/** @returns {Contender} */
export function sentinel() {
  const numbers = Float64Array.from({ length: NUMBERS }, (_, i) => 1 + i / NUMBERS);
  return {
    name: "sentinel",
    threads: 1,
    call: async () => {
      let sum = 0;
      for (let pass = 0; pass < PASSES; pass++) for (let i = 0; i < NUMBERS; i++) sum = sum * 0.5 + numbers[i];
      return sum;
    },
    output: async () => new Float32Array(),
    release: () => {},
  };
}
