// Command attune is the operator: attune webhook sizes pods at admission, attune controller tunes running ones, and attune
// without a command is both in one process.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "attune:", err)
		os.Exit(1)
	}
}
