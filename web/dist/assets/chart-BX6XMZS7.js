import{f as a}from"./chunk-C5I6U7MH.js";import"./chunk-62ZJSRHI.js";import"./chunk-5PA43CRJ.js";export{a as Chart};
