package main

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// Every mistake on the command line gives one sentence and the exit code 1.
func TestMistakes(t *testing.T) {
	cases := []struct {
		args []string
		want string
	}{
		{[]string{"explain"}, "explain takes one workload: write KIND/NAME, e.g. deployment/web, or give files with --usage, --policy and --current"},
		{[]string{"explain", "deploy/web", "deploy/api"}, "explain takes one workload: write KIND/NAME, e.g. deployment/web, or give files with --usage, --policy and --current"},
		{[]string{"explain", "web"}, `"web" names no workload: write KIND/NAME, e.g. deployment/web`},
		{[]string{"explain", "deploy/"}, `"deploy/" names no workload: write KIND/NAME, e.g. deployment/web`},
		{[]string{"explain", "deploy/web/app"}, `"deploy/web/app" names no workload: write KIND/NAME, e.g. deployment/web`},
		{[]string{"explain", "pod/web"}, `"pod" in "pod/web" is no kind that attune sizes: use deployment, statefulset, daemonset, replicaset, job, cronjob or rollout, or KIND.GROUP of the chart's value scaledKinds`},
		{[]string{"explain", "deploy/web", "--at", "2026-03-02T12:00:00Z"}, "name a workload or give files (--usage, --policy, --current), not both"},
		{[]string{"explain", "deploy/new"}, "Deployment/new does not exist in namespace shop: check the name, or choose the namespace with -n"},
		{[]string{"explain", "rs/web-7c9"}, "ReplicaSet/web-7c9 belongs to Deployment/web, which is sized as a whole: name that one"},
		{[]string{"diff", "sts/cache", "-n", "lonely"}, "no policy selects StatefulSet/cache: there is no AttunePolicy in namespace lonely"},
		{[]string{"history", "sts/cache"}, "no policy selects StatefulSet/cache in namespace shop; the nearest is db, which names StatefulSet/db"},
		{[]string{"explain", "-A", "deploy/web"}, "a workload that is named is in one namespace: leave -A out and give the namespace with -n"},
		{[]string{"diff", "-l", "tier in api"}, `-l "tier in api" is not a label selector (unable to parse requirement: found 'api' expected: '('): write e.g. -l tier=api`},
		{[]string{"status", "deploy/web"}, `status is about policies, and takes no "deploy/web": kubectl attune explain KIND/NAME is about one workload`},
		{[]string{"status", "-o", "xml"}, `invalid argument "xml" for "-o, --output" flag: use table, wide, json or yaml, krr with recommendations, or html with backtest: see kubectl attune status --help`},
		{[]string{"pause", "deploy/web", "-o", "html"}, "-o html is a page of backtest: use table, wide, json or yaml with pause"},
		{[]string{"status", "-o", "krr"}, "-o krr is for recommendations: use table, wide, json or yaml with status"},
		{[]string{"status", "--colour"}, "unknown flag: --colour: see kubectl attune status --help"},
		{[]string{"stats"}, `unknown command "stats" for "kubectl attune"`},
		{[]string{"pause"}, "which workload? write KIND/NAME, e.g. deployment/web, select some with -l, or all with -A"},
		{[]string{"pause", "deploy/web", "-l", "tier=api"}, "name the workloads or select them with -l, not both"},
		{[]string{"pause", "rs/web-7c9"}, "ReplicaSet/web-7c9 belongs to Deployment/web, which is sized as a whole: name that one"},
		{[]string{"undo", "job/backup"}, "Job/backup does not exist in namespace shop: check the name, or choose the namespace with -n"},
	}
	for _, c := range cases {
		t.Run(c.want, func(t *testing.T) {
			got := newCLITest(t, interceptor.Funcs{}).run(c.args...)
			assert.Equal(t, exitError, got.code)
			assert.Equal(t, "error: "+c.want+"\n", firstLine(got.errOut))
			assert.Empty(t, got.out)
		})
	}
}

// firstLine removes cobra's suggestions.
func firstLine(text string) string {
	for i, r := range text {
		if r == '\n' {
			return text[:i+1]
		}
	}
	return text
}

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
}

func TestWithoutACluster(t *testing.T) {
	for _, verb := range []string{"status", "recommendations", "history", "diff", "explain", "pause", "resume", "undo"} {
		t.Run(verb, func(t *testing.T) {
			args := []string{verb}
			if verb != "status" {
				args = append(args, "deploy/web")
			}
			assert.Equal(t, answer{code: exitError, errOut: "error: no cluster to talk to\n"}, cliTest{t: t}.run(args...))
		})
	}
}

func TestWhereAttuneIsNotInstalled(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "attune.io", Kind: "AttunePolicy"}}
		},
	})
	assert.Equal(t, answer{
		code:   exitError,
		errOut: "error: this cluster does not know attune's kinds: install the chart, or choose another cluster with --context\n",
	}, cli.run("status"))
}

// noRight denies listing one kind of objects.
func noRight(kind client.ObjectList, resource string) interceptor.Funcs {
	return interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if reflect.TypeOf(kind) == reflect.TypeOf(list) {
				return forbidden(resource)
			}
			return c.List(ctx, list, options...)
		},
	}
}

func TestRightsThatAreMissing(t *testing.T) {
	t.Run("recommendations are the answer", func(t *testing.T) {
		got := newCLITest(t, noRight(&v1alpha1.AttuneRecommendationList{}, "attunerecommendations")).run("history")
		assert.Equal(t, exitError, got.code)
		assert.Contains(t, got.errOut, "error: your user lacks a right that this needs: listing the recommendations: attunerecommendations")
	})
	t.Run("templates are not", func(t *testing.T) {
		got := newCLITest(t, noRight(workload.NewList(v1alpha1.KindDeployment), "deployments")).run("recommendations", "deploy/web", "-o", "json")
		assert.Equal(t, exitOK, got.code)
		assert.Contains(t, got.errOut, "what the Deployments ask now is not shown: listing the Deployments: deployments")
		assert.Contains(t, got.out, `"cpuRequest": "200m"`, "the target")
		assert.Contains(t, got.out, `"cpuRequest": null`, "what is asked now")
	})
	t.Run("pods are not", func(t *testing.T) {
		got := newCLITest(t, noRight(&corev1.PodList{}, "pods")).run("explain", "deploy/web", "-o", "json")
		assert.Equal(t, exitOK, got.code)
		assert.Contains(t, got.errOut, "the running pods are not shown: pods")
		assert.NotContains(t, got.out, `"pods"`)
		assert.Contains(t, got.out, `"cpuRequest": "250m"`, "the step from the template")
	})
	t.Run("defaults are not", func(t *testing.T) {
		got := newCLITest(t, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				if _, defaults := object.(*v1alpha1.AttuneDefaults); defaults {
					return forbidden("attunedefaults")
				}
				return c.Get(ctx, key, object, options...)
			},
		}).run("diff", "-o", "json")
		assert.Equal(t, exitFinding, got.code)
		assert.Contains(t, got.errOut, "what policy api would do next is not known: reading AttuneDefaults: attunedefaults")
		assert.Equal(t, 1, strings.Count(got.errOut, "attunedefaults"), "said once for all workloads")
		assert.Contains(t, got.out, `"target": "200m"`)
	})
}
