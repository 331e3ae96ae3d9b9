package main

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// goldens has every verb that reads, in every format.
var goldens = []struct {
	golden string
	args   []string
	code   int
}{
	{"status.txt", []string{"status"}, exitOK},
	{"status-all-wide.txt", []string{"status", "-A", "-o", "wide"}, exitOK},
	{"status-label.json", []string{"status", "-l", "team=web", "-o", "json"}, exitOK},
	{"status-label.yaml", []string{"status", "-l", "team=web", "-o", "yaml"}, exitOK},
	{"recommendations.txt", []string{"recommendations"}, exitOK},
	{"recommendations-all-wide.txt", []string{"recommendations", "-A", "-o", "wide"}, exitOK},
	{"recommendations-named.json", []string{"recommendations", "deploy/web", "-o", "json"}, exitOK},
	{"recommendations-krr.json", []string{"recommendations", "-A", "-o", "krr"}, exitOK},
	{"savings.txt", []string{"savings"}, exitOK},
	{"savings-all-wide.txt", []string{"savings", "-A", "-o", "wide"}, exitOK},
	{"savings-named.json", []string{"savings", "deploy/web", "-o", "json"}, exitOK},
	{"savings-label.yaml", []string{"savings", "-A", "-l", "tier=store", "-o", "yaml"}, exitOK},
	{"history-all.txt", []string{"history", "-A"}, exitOK},
	{"history-wide.txt", []string{"history", "deploy/web", "-o", "wide"}, exitOK},
	{"history-label.json", []string{"history", "-A", "-l", "tier=store", "-o", "json"}, exitOK},
	{"diff.txt", []string{"diff"}, exitFinding},
	{"diff-named.json", []string{"diff", "sts/db", "-n", "pay", "-o", "json"}, exitFinding},
	{"explain.txt", []string{"explain", "deployment/web"}, exitOK},
	{"explain-wide.txt", []string{"explain", "deployment/web", "-o", "wide"}, exitOK},
	{"explain.json", []string{"explain", "deployment/web", "-o", "json"}, exitOK},
}

func TestAnswers(t *testing.T) {
	for _, c := range goldens {
		t.Run(c.golden, func(t *testing.T) {
			cli := newCLITest(t, interceptor.Funcs{})
			renewed(t, cli, 0)
			got := cli.run(c.args...)
			assert.Equal(t, c.code, got.code, got.errOut)
			golden(t, c.golden, got.out)
		})
	}
}

// An API server may list objects in any order.
func TestAnswersDoNotDependOnTheOrderOfLists(t *testing.T) {
	reversed := interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := c.List(ctx, list, options...); err != nil {
				return err
			}
			items, err := meta.ExtractList(list)
			require.NoError(t, err)
			slices.Reverse(items)
			return meta.SetList(list, items)
		},
	}
	for _, c := range goldens {
		t.Run(c.golden, func(t *testing.T) {
			want := newCLITest(t, interceptor.Funcs{}).run(c.args...)
			assert.Equal(t, want, newCLITest(t, reversed).run(c.args...))
		})
	}
}
