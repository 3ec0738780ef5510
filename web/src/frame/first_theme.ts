// Sets the theme before the first paint. A file of its own, since the content security policy allows no
// inline script.

import { applyTheme, chosenTheme } from "./theme.ts";

applyTheme(chosenTheme());
