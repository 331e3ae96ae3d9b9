package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"attune.io/attune/cmd/kubectl-attune/doctor"
)

// newDoctor makes the verb doctor. Its finding is a problem.
// It needs no right at all: what it may not read is unknown, and the answer says so.
func newDoctor(env *environment) *cobra.Command {
	var operator string
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Look whether everything is there that attune needs",
		Long: "Look whether everything is there that attune needs: versions, CustomResourceDefinitions, your rights, the operator, its\n" +
			"webhooks, policies and their usage, other autoscalers, quotas and policy engines. Each result is one sentence, with\n" +
			"the command that mends it. What could not be read is unknown, and never ok.\n\n" +
			"A finding (exit code 2) is a problem. Warnings are none.",
		Example:           "  kubectl attune doctor -A\n  kubectl attune doctor -n shop -o json",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), env, operator) },
	}
	command.Flags().StringVar(&operator, "operator-namespace", "attune-system", "Namespace of the operator")
	return command
}

// runDoctor looks at the cluster and prints what it found.
func runDoctor(ctx context.Context, env *environment, operator string) error {
	if env.scope.selector != "" {
		return errors.New("doctor looks at a whole namespace, or with -A at all of them: leave -l out")
	}
	r, err := env.reach()
	if err != nil {
		return err
	}
	// Without an answer to this nothing else would be answered either.
	version, err := env.cluster.Version()
	if err != nil {
		return fmt.Errorf("asking the API server for its version: %w", err)
	}
	answer := doctor.Examine(lookAt(ctx, r, doctor.Scope{Now: env.now(), Namespace: r.namespace, Operator: operator}, version))
	if err := env.print(answer); err != nil {
		return err
	}
	if answer.Problems > 0 {
		return errFinding
	}
	return nil
}
