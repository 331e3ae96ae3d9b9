// Command upstream runs Kubernetes' own tests of in-place resize against the cluster that $KUBECONFIG names. It takes the
// flags of Kubernetes' e2e.test.
package main

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	_ "k8s.io/kubernetes/test/e2e/common/node"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	_ "k8s.io/kubernetes/test/e2e/node"
	e2etestingmanifests "k8s.io/kubernetes/test/e2e/testing-manifests"
)

// outcome is what ginkgo tells failures to.
type outcome struct{ failed bool }

func (o *outcome) Fail() { o.failed = true }

func main() {
	testing.Init()
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	testfiles.AddFileSource(e2etestingmanifests.GetE2ETestingManifestsFS())
	framework.AfterReadingAllFlags(&framework.TestContext)
	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := framework.CreateGinkgoConfig()
	o := &outcome{}
	if !ginkgo.RunSpecs(o, "Kubernetes' own tests", suite, reporter) || o.failed {
		fmt.Fprintln(os.Stderr, "some tests failed")
		os.Exit(1)
	}
}
