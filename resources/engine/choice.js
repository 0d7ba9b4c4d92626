/** Whether a kernel runs on the caller alone or on the team: measured, not guessed. */
import { median } from "./quantile.js";

const TRIALS = 5;
/** At first sight a kernel that takes this long alone is worth a team, whatever waking it costs. */
const SURE_MS = 1;
/** By then the engine's optimising compiler has done its work: time to look again. */
const LOOK_AGAIN = 100;
/** Later looks, each after twice as many calls, follow the load of the machine. */
const RAREST_LOOK = 5000;

export class Choice {
  team = false;
  settled = false;
  /** Settled by its time alone. */
  sure = false;
  #first = true;
  #calls = 0;
  /** @type {number[]} */ #solo_ms = [];
  /** @type {number[]} */ #team_ms = [];

  /** @param {number} [look_again] after how many calls; Infinity never does */
  constructor(look_again = LOOK_AGAIN) {
    this.look_again = look_again;
  }

  /**
   * Runs the kernel one way or the other, and learns from it until it is settled.
   * @param {() => void} solo
   * @param {() => void} team
   */
  run(solo, team) {
    if (this.settled) {
      if (++this.#calls === this.look_again) {
        this.look_again = Math.min(2 * this.look_again, RAREST_LOOK);
        this.reopen();
      }
      return this.team ? team() : solo();
    }
    const together = this.#team_ms.length < this.#solo_ms.length;
    const start = performance.now();
    if (together) team();
    else solo();
    const ms = performance.now() - start;
    (together ? this.#team_ms : this.#solo_ms).push(ms);
    this.sure = this.#first && !together && ms >= SURE_MS;
    if (this.sure) this.#settle(true);
    else if (this.#team_ms.length === TRIALS) this.#settle(median(this.#team_ms) < median(this.#solo_ms));
  }

  /** Forgets what it learned. */
  reopen() {
    this.settled = false;
    this.#calls = 0;
    this.#solo_ms = [];
    this.#team_ms = [];
  }

  /** @param {boolean} team */
  #settle(team) {
    this.team = team;
    this.settled = true;
    this.#first = false;
  }
}
