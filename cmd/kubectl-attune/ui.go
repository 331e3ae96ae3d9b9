package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"attune.io/attune/cmd/kubectl-attune/connect"
	"attune.io/attune/internal/decision"
)

// newUI makes the verb ui.
func newUI(env *environment) *cobra.Command { return connect.NewUI(env.Out, env.ErrOut, env.page) }

// page asks the leader for a page.
func (e *environment) page(ctx context.Context, operator, path string) (answer connect.Answer, err error) {
	c, err := e.cluster.Client()
	if err != nil {
		return answer, err
	}
	pod, err := leader(ctx, c, operator)
	if err == nil {
		answer, err = e.cluster.FetchPod(ctx, operator, pod, decision.Port, path)
	}
	if err != nil {
		err = fmt.Errorf("asking the leader, which takes the rights to get leases and to create pods/portforward in namespace %s: %w", operator, plain(err))
	}
	return answer, err
}
