// Command rbac prints, as tables, what a chart that helm has rendered to its input grants.
package main

import (
	"fmt"
	"os"

	"attune.io/attune/charts"
)

func main() {
	rights, err := charts.Rights(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "rbac:", err)
		os.Exit(1)
	}
	fmt.Print(rights)
}
