/** The page in the Studio's centre: link and view, wired. */
import { link, socketAddress } from "./link.js";
import { came, closed, connected, done, START, started } from "./state.js";
import { makeView } from "./view.js";

/** @import { State } from "./state.js" */

const show = makeView();
let state = START;

/** @param {State} next */
function become(next) {
  state = next;
  show(state);
}

/** The token stands in the query or in the fragment of the page's address. */
function readToken() {
  const from = (/** @type {string} */ part) => new URLSearchParams(part.slice(1)).get("token");
  return from(location.search) ?? from(location.hash);
}

/** @param {string} token */
function connect(token) {
  const own = `?token=${encodeURIComponent(token)}`;
  link(socketAddress(`/link${own}`), socketAddress(`/gpu${own}`), {
    opened: () => become(connected(state)),
    started: (request) => become(started(state, request)),
    done: (request, reply) => become(done(state, request, reply)),
    came: (header) => become(came(state, header)),
    closed: (opened) => {
      const why = opened
        ? "The link to the Studio is closed; nothing runs here any more."
        : "The Studio does not answer at this address. Open the page from the Studio again.";
      become(closed(state, why));
    },
  });
}

const token = readToken();
if (token) connect(token);
else become(closed(state, "This address has no token. Open the page from NNJIT Studio, or with the nnjit command."));
