// Command attune is the operator. attune webhook sizes pods at admission, attune controller resizes running pods, and
// attune without a subcommand does both in one process.
//
// A process is built in this order, and each step needs the previous one:
//
//  1. command.go selects the program (webhook, controller or both) and registers its flags, the Options.
//  2. Options.Validate rejects flags that cannot work (options.go).
//  3. Options.Complete asks the API server what the operator may watch, and returns the Config (config.go).
//  4. NewSystem builds a manager with all its runnables: webhooks, loops, ports (system.go, webhooks.go, loops.go).
//  5. System.Run starts the manager and ends with it.
//
// The package connects the parts and makes no decisions about sizes. Loops exchange data over the boards (loops.go);
// no loop imports another one. Start reading at command.go, then system.go and loops.go.
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
