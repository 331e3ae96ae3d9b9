// Command attune is the operator: the admission webhook on every replica, the
// control loops on the leader.
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
