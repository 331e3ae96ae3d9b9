package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
)

// With -w the answer is printed again when it changes, and an interrupt ends the verb without an error.
func TestStatusWatches(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	rounds := 0
	through := interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if policies, ok := list.(*v1alpha1.AttunePolicyList); ok {
				if rounds++; rounds == 2 {
					policies.Items[0].Status.Mode = v1alpha1.UpdateCanary
					interrupt()
				}
			}
			return err
		},
	}
	var out, errOut bytes.Buffer
	env := &environment{
		IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut},
		now:       func() time.Time { return testNow },
		cluster:   &fakeCluster{client: newCLITest(t, through).client},
	}
	assert.Equal(t, exitOK, run(ctx, env, []string{"status", "-w", "-l", "team=web", "-o", "yaml"}), errOut.String())
	assert.Equal(t, 2, rounds)
	first, second, found := strings.Cut(out.String(), "---\n")
	assert.True(t, found)
	assert.Equal(t, strings.Replace(first, "mode: Auto", "mode: Canary", 1), second)
}

// A note that every round of -w would repeat is written once.
func TestNotesAreWrittenOnce(t *testing.T) {
	var errOut bytes.Buffer
	env := &environment{IOStreams: genericiooptions.IOStreams{ErrOut: &errOut}, said: map[string]bool{}}
	for _, pod := range []string{"a", "a", "b"} {
		env.printNote("pod %s is left out", pod)
	}
	assert.Equal(t, "pod a is left out\npod b is left out\n", errOut.String())
}
