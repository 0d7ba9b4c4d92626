/** The page to join: nothing is sent before the person agrees. */
const element = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
const input = /** @type {HTMLInputElement} */ (element("code"));
const button = /** @type {HTMLButtonElement} */ (element("join"));

/** The QR code's secret; it stands in the fragment, which browsers never send. */
const secret = location.hash.slice(1);
if (secret) {
  history.replaceState(null, "", "/"); // out of the address bar and the history
  for (const part of [input, element("label")]) part.hidden = true;
  input.required = false;
}

/** @param {string} text */
function tell(text) {
  element("note").textContent = text;
  element("note").hidden = !text;
}

async function join() {
  tell("");
  button.disabled = true;
  try {
    const code = secret || input.value;
    const answer = await fetch("/join", { method: "POST", body: JSON.stringify({ code }) });
    const { ok, error, hint } = await answer.json();
    if (ok) location.reload();
    else tell(`${error} ${hint}`);
  } catch {
    tell("The Studio does not answer. Open the address that it shows again.");
  }
  button.disabled = false;
}

element("form").addEventListener("submit", (event) => {
  event.preventDefault();
  join();
});
