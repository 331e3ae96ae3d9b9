package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheLastLineSaysWhatBecameOfAllTests(t *testing.T) {
	ran := `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"pass","Package":"p","Test":"TestA/sub"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    main_test.go:42: a kubelet needs root: run as root\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p"}
{"Action":"output","Package":"r","Output":"FAIL r [build failed]\n"}
{"Action":"fail","Package":"r","FailedBuild":"r"}
`
	var x tally
	require.NoError(t, x.add(strings.NewReader(ran)))
	require.NoError(t, x.add(strings.NewReader(`{"Action":"pass","Package":"q","Test":"TestA"}`)))
	assert.Equal(t, "3 passed, 2 failed, 1 skipped; failed: TestC, r; skipped: TestB (a kubelet needs root: run as root)", x.line())
	assert.Equal(t, "0 passed, 0 failed, 0 skipped", (&tally{}).line())
	assert.ErrorContains(t, (&tally{}).add(strings.NewReader("ok p 0.1s\n")), "no line of go test -json")
}

func TestAFailedTestIsQuoted(t *testing.T) {
	said := `{"Action":"output","Package":"p","Test":"TestA/sub","Output":"    a_test.go:3: \n"}
{"Action":"output","Package":"p","Test":"TestA/sub","Output":"        \tError Trace:\ta_test.go:3\n"}
{"Action":"output","Package":"p","Test":"TestA/sub","Output":"        \tError:      \tNot equal: \n"}
{"Action":"output","Package":"p","Test":"TestA/sub","Output":"        \t            \texpected: 1\n"}
{"Action":"output","Package":"p","Test":"TestA/sub","Output":"        \tTest:       \tTestA/sub\n"}
{"Action":"output","Package":"p","Test":"TestA/sub","Output":"        \tMessages:   \tthe operator lives\n"}
{"Action":"output","Package":"p","Test":"TestA/sub","Output":"goroutine 1 [running]\n"}
{"Action":"fail","Package":"p","Test":"TestA/sub"}
{"Action":"fail","Package":"p","Test":"TestA"}
`
	var x tally
	require.NoError(t, x.add(strings.NewReader(said)))
	assert.Equal(t, []string{"TestA/sub failed:\n    Error:      \tNot equal:\n    expected: 1\n    Messages:   \tthe operator lives"}, x.complaints)
	for range 6 {
		said += said
	}
	x = tally{}
	require.NoError(t, x.add(strings.NewReader(strings.ReplaceAll(said, `{"Action":"fail"`, `{"Action":"cont"`)+`{"Action":"fail","Package":"p","Test":"TestA/sub"}`)))
	assert.Len(t, strings.Split(x.complaints[0], "\n"), 1+mostComplaints)
}
