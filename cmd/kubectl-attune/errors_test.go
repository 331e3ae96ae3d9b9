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
		{[]string{"explain", "web"}, `"web" is not a workload: write KIND/NAME, e.g. deployment/web`},
		{[]string{"explain", "deploy/"}, `"deploy/" is not a workload: write KIND/NAME, e.g. deployment/web`},
		{[]string{"explain", "deploy/web/app"}, `"deploy/web/app" is not a workload: write KIND/NAME, e.g. deployment/web`},
		{[]string{"explain", "pod/web"}, `"pod" in "pod/web" is not a kind that attune manages: use deployment, statefulset, daemonset, replicaset, job, cronjob or rollout, or a KIND.GROUP of the chart's value scaledKinds`},
		{[]string{"explain", "deploy/web", "--at", "2026-03-02T12:00:00Z"}, "a workload cannot be combined with files (--usage, --policy, --current): specify one of them"},
		{[]string{"explain", "deploy/new"}, "Deployment/new does not exist in namespace shop: check the name, or choose the namespace with -n"},
		{[]string{"explain", "rs/web-7c9"}, "ReplicaSet/web-7c9 belongs to Deployment/web, which attune manages as a whole: specify that one"},
		{[]string{"diff", "sts/cache", "-n", "lonely"}, "no policy selects StatefulSet/cache: no AttunePolicy or AttuneClusterPolicy covers namespace lonely"},
		{[]string{"history", "sts/cache"}, "no policy selects StatefulSet/cache in namespace shop; the closest match is db, which selects only StatefulSet/db"},
		{[]string{"explain", "-A", "deploy/web"}, "workload names cannot be combined with -A: specify the namespace with -n"},
		{[]string{"diff", "-l", "tier in api"}, `-l "tier in api" is not a valid label selector (unable to parse requirement: found 'api' expected: '('): write e.g. -l tier=api`},
		{[]string{"status", "deploy/web"}, `status takes no arguments, but got "deploy/web": for one workload, use kubectl attune explain KIND/NAME`},
		{[]string{"status", "-o", "xml"}, `invalid argument "xml" for "-o, --output" flag: must be table, wide, json or yaml; krr for recommendations; html for backtest: see kubectl attune status --help`},
		{[]string{"pause", "deploy/web", "-o", "html"}, "-o html is only for backtest: use table, wide, json or yaml with pause"},
		{[]string{"status", "-o", "krr"}, "-o krr is only for recommendations: use table, wide, json or yaml with status"},
		{[]string{"status", "--colour"}, "unknown flag: --colour: see kubectl attune status --help"},
		{[]string{"stats"}, `unknown command "stats" for "kubectl attune"`},
		{[]string{"pause"}, "no workload specified: write KIND/NAME, e.g. deployment/web, or use -l to select some, or -A for all"},
		{[]string{"pause", "deploy/web", "-l", "tier=api"}, "workload names cannot be combined with -l: specify one of them"},
		{[]string{"pause", "rs/web-7c9"}, "ReplicaSet/web-7c9 belongs to Deployment/web, which attune manages as a whole: specify that one"},
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

func TestVersion(t *testing.T) {
	got := cliTest{t: t}.run("version")
	assert.Equal(t, exitOK, got.code)
	assert.Regexp(t, `^dev, commit \w+, go\S+\n$`, got.out)
	assert.Contains(t, cliTest{t: t}.run("version", "-o", "json").out, `"version": "dev"`)
}

func TestWhereAttuneIsNotInstalled(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "attune.io", Kind: "AttunePolicy"}}
		},
	})
	assert.Equal(t, answer{
		code:   exitError,
		errOut: "error: attune's CustomResourceDefinitions are not installed in this cluster: install the chart, or select another cluster with --context\n",
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
		assert.Contains(t, got.errOut, "error: missing permission: listing the recommendations: attunerecommendations")
	})
	t.Run("templates are not", func(t *testing.T) {
		got := newCLITest(t, noRight(workload.NewList(v1alpha1.KindDeployment), "deployments")).run("recommendations", "deploy/web", "-o", "json")
		assert.Equal(t, exitOK, got.code)
		assert.Contains(t, got.errOut, "current resources of workloads of kind Deployment are not shown: listing workloads of kind Deployment: deployments")
		assert.Contains(t, got.out, `"cpuRequest": "200m"`, "the target")
		assert.Contains(t, got.out, `"cpuRequest": null`, "what is asked now")
	})
	t.Run("pods are not", func(t *testing.T) {
		got := newCLITest(t, noRight(&corev1.PodList{}, "pods")).run("explain", "deploy/web", "-o", "json")
		assert.Equal(t, exitOK, got.code)
		assert.Contains(t, got.errOut, "running pods are not shown: pods")
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
		assert.Contains(t, got.errOut, "next resizes of policy api are not shown: reading AttuneDefaults: attunedefaults")
		assert.Equal(t, 1, strings.Count(got.errOut, "attunedefaults"), "said once for all workloads")
		assert.Contains(t, got.out, `"target": "200m"`)
	})
}
