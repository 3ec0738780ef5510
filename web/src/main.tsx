// The entry of the page: draws the frame, and loads the code of a route when it is shown.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import "./alerts/style.css";
import "./dashboards/style.css";
import { type ComponentType, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Frame, type Page } from "./frame/frame.tsx";
import { listen } from "./frame/keys.ts";
import { type RouteName, root } from "./frame/url.ts";

type RouteView = ComponentType<{ page: Page }>;

const LOADERS: Record<RouteName, () => Promise<{ default: RouteView }>> = {
  logs: () => import("./logs/page.tsx"),
  metrics: () => import("./metrics/page.tsx"),
  graphite: () => import("./graphite/page.tsx"),
  alerts: () => import("./alerts/page.tsx"),
  dashboards: () => import("./dashboards/page.tsx"),
  machine: () => import("./machine/page.tsx"),
};

const loaded = new Map<RouteName, RouteView>();

function Route({ page }: { page: Page }) {
  const name = page.place.route;
  const [, drawAgain] = useState(0);
  const [failure, setFailure] = useState("");
  useEffect(() => {
    if (loaded.has(name)) return;
    LOADERS[name]().then(
      (module) => {
        loaded.set(name, module.default);
        drawAgain((n) => n + 1);
      },
      () => setFailure("The code of this page cannot be loaded. The server may have been updated: reload the page."),
    );
  }, [name]);
  const View = loaded.get(name);
  if (failure !== "") return <p class="problem" role="alert">{failure}</p>;
  return View ? <View key={name} page={page} /> : null;
}

// The first route begins to load before anything is drawn.
if (/\/explore\/?$/.test(location.pathname)) {
  history.replaceState(null, "", `${root()}explore/logs${location.search}`);
}
listen();
const app = document.getElementById("app");
if (app) render(<Frame>{(page) => <Route page={page} />}</Frame>, app);
