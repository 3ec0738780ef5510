import{d as a}from"./chunk-QODRNYXE.js";import"./chunk-E2VZ2YZL.js";import"./chunk-2BX3ZWY4.js";export{a as Chart};
