function a(){return null}export{a as default};
