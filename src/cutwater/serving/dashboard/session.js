// Who is looking? A code behind the # of the address is exchanged for a session, and removed from the address bar.
import { ask } from "/assets/api.js";

export async function currentSession() {
  const code = location.hash.slice(1);
  if (/^[\w-]{30,}$/.test(code)) {
    history.replaceState(null, "", "/");
    // An older session goes on if the code is not good any more.
    await fetch("/session", { method: "POST", headers: { authorization: `Bearer ${code}` } });
  }
  return ask("/session");
}

export function signOutButton(button) {
  button.addEventListener("click", async () => {
    await ask("/session", { method: "DELETE" });
    location.replace("/");
  });
}
