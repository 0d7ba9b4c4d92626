/** The page of a device that joined: it works, shows what it does, and leaves by one tap. */
import { link, socketAddress } from "../link.js";
import { batteryText, leftText, measuredText, rateText } from "./words.js";

/** @import { DeviceState, Told } from "./words.js" */

const AGAIN_MS = 2000;
const REVOKED = 4003;
const element = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));

let measured = 0;
let over = false;
/** @type {WebSocket[]} */
let sockets = [];
/** @type {DeviceState} */
let state = {
  hidden: document.hidden,
  battery: null,
  charging: null,
  cores: navigator.hardwareConcurrency || null,
  memory_gb: /** @type {any} */ (navigator).deviceMemory ?? null,
};

/** @param {string} phase @param {string} text */
function show(phase, text) {
  document.body.dataset.phase = phase;
  element("phase").textContent = text;
}

/** @param {string} text */
function note(text) {
  element("note").textContent = text;
  element("note").hidden = !text;
}

function work() {
  if (over) return;
  sockets[0] = link(socketAddress("/link"), "", {
    opened: () => show("ready", "Ready"),
    started: (request) => show("running", request.type === "measure" || request.type === "trial" ? "Measuring" : "Working"),
    done: (request) => {
      if (request.type === "measure") element("measured").textContent = measuredText(++measured);
      show("ready", "Ready");
    },
    came: () => {},
    closed: (opened, { code, reason }) => ended(opened, code, reason, work),
  });
}

function talk() {
  if (over) return;
  const socket = (sockets[1] = new WebSocket(socketAddress("/status")));
  socket.addEventListener("open", () => tell());
  socket.addEventListener("message", ({ data }) => draw(JSON.parse(data)));
  socket.addEventListener("close", ({ code, reason }) => ended(true, code, reason, talk));
}

/** @param {boolean} opened @param {number} code @param {string} reason @param {() => void} again */
function ended(opened, code, reason, again) {
  if (over) return;
  show("closed", opened && reason ? "Waiting" : "Not connected");
  note(reason || "The Studio does not answer; the page tries again.");
  if (code === REVOKED && reason === "The device was revoked.") leave();
  else setTimeout(again, AGAIN_MS);
}

/** @param {Told} told */
function draw(told) {
  note(told.warning);
  element("model").textContent = told.model || "No work yet";
  element("kernel").textContent = told.kernel;
  element("gflops").textContent = told.gflops ? told.gflops.toFixed(1) : "–";
  element("rate").textContent = rateText(told);
  element("left").textContent = leftText(told);
}

function tell() {
  element("battery").textContent = batteryText(state);
  element("screen").textContent = state.hidden ? "off: nothing is measured" : "on";
  if (sockets[1]?.readyState === WebSocket.OPEN) sockets[1].send(JSON.stringify(state));
}

/** @param {Partial<DeviceState>} now */
function become(now) {
  state = { ...state, ...now };
  tell();
}

/** A screen that goes off would end the work; browsers without the interface leave it to the person. */
async function stayOn() {
  try {
    if (!document.hidden) await /** @type {any} */ (navigator).wakeLock?.request("screen");
  } catch {
    // the battery is low, or a setting forbids it: then the screen goes off as always
  }
}

async function watchBattery() {
  const battery = await /** @type {any} */ (navigator).getBattery?.().catch(() => null);
  if (!battery) return;
  const look = () => become({ battery: battery.level, charging: battery.charging });
  battery.addEventListener("levelchange", look);
  battery.addEventListener("chargingchange", look);
  look();
}

function leave() {
  over = true;
  sockets.forEach((socket) => socket.close());
  show("closed", "Left");
  element("model").textContent = "This device has left";
  element("leave").hidden = true;
  note("");
}

element("leave").addEventListener("click", () => {
  fetch("/leave", { method: "POST" }).catch(() => {}); // without the Studio there is nobody to tell
  leave();
});
document.addEventListener("visibilitychange", () => {
  become({ hidden: document.hidden });
  stayOn();
});
stayOn();
watchBattery();
work();
talk();
