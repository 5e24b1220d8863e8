// etcd's server alone. Debian's is too old: Spark's client asks the API server for a kind of watch that needs 3.5.13.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
